using Confluent.Kafka;

namespace Orders;

/// <summary>An order as it was received.</summary>
public record Order
{
    public byte[]? Bytes { get; init; }
}

public class OrderBytes : IDeserializer<Order>, IAsyncSerializer<Order>
{
    public Order Deserialize(ReadOnlySpan<byte> data, bool isNull, SerializationContext context) =>
        new() { Bytes = isNull ? null : data.ToArray() };

    public Task<byte[]> SerializeAsync(Order order, SerializationContext context) => Task.FromResult(order.Bytes!);
}
