using MassTransit;

namespace Orders;

public class OrderConsumer(Payments payments, ITopicProducer<byte[], Order> letters, ILogger<OrderConsumer> log)
    : IConsumer<Order>
{
    public static readonly TimeSpan[] Waits = [TimeSpan.FromMilliseconds(100), TimeSpan.FromMilliseconds(200)];

    /// <summary>
    /// A mistake that tests plant, to see it named: what the rider does with exceptions is left to it, as with queues,
    /// where MassTransit moves the message to an error queue.
    /// </summary>
    private static readonly bool Throws = Environment.GetEnvironmentVariable("PLANTED_BUG") == "left-to-the-rider";

    public async Task Consume(ConsumeContext<Order> context)
    {
        try
        {
            await payments.ChargeAsync(context.Message, context.CancellationToken);
        }
        catch (PaymentException e) when (!Throws && (e.Permanent || context.GetRetryAttempt() == Waits.Length))
        {
            await DeadLetterAsync(context, e);
        }
    }

    /// <summary>Writes the order to the dead-letter topic until it is acknowledged.</summary>
    private async Task DeadLetterAsync(ConsumeContext<Order> context, PaymentException failure)
    {
        var from = context.ReceiveContext.GetPayload<KafkaConsumeContext>();
        while (true)
        {
            try
            {
                await letters.Produce(context.GetKey<byte[]>(), context.Message, Pipe.Execute<SendContext>(letter =>
                {
                    letter.Headers.Set("orders-topic", from.Topic);
                    letter.Headers.Set("orders-partition", from.Partition.ToString());
                    letter.Headers.Set("orders-offset", from.Offset.ToString());
                    letter.Headers.Set("orders-attempts", (context.GetRetryAttempt() + 1).ToString());
                    letter.Headers.Set("orders-reason", failure.Message);
                }), context.CancellationToken);
                return;
            }
            catch (Exception e) when (!context.CancellationToken.IsCancellationRequested)
            {
                log.LogError(e, "Dead letter of {Partition}/{Offset} not written", from.Partition, from.Offset);
            }
            await Task.Delay(TimeSpan.FromMilliseconds(500), context.CancellationToken);
        }
    }
}
