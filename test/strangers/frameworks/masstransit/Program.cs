// A service on MassTransit's Kafka rider, as its documentation writes one: a consumer of the topic endpoint, with
// UseMessageRetry. The rider discards what a consumer throws after the last retry, so the consumer writes the dead letters
// itself, with a topic producer.
using Confluent.Kafka;
using MassTransit;
using Orders;

var builder = WebApplication.CreateBuilder(args);
var kafka = builder.Configuration.GetSection("Kafka");

builder.Services.AddHttpClient<Payments>(client =>
{
    client.BaseAddress = new Uri(builder.Configuration["Payments:Url"]!);
    client.Timeout = TimeSpan.FromSeconds(1);
});
builder.Services.AddMassTransit(bus =>
{
    bus.UsingInMemory();
    bus.AddRider(rider =>
    {
        rider.AddConsumer<OrderConsumer>();
        rider.AddProducer<byte[], Order>(kafka["DeadLetterTopic"],
            new ProducerConfig { MessageMaxBytes = 1048588 }, // a dead letter is a little larger than its record
            (_, producer) => producer.SetValueSerializer(new OrderBytes()));
        rider.UsingKafka((context, configurator) =>
        {
            configurator.Host(kafka["Brokers"]);
            configurator.TopicEndpoint<byte[], Order>(kafka["Topic"], kafka["Group"], endpoint =>
            {
                endpoint.AutoOffsetReset = AutoOffsetReset.Earliest;
                endpoint.CheckpointInterval = kafka.GetValue<TimeSpan>("CheckpointInterval");
                endpoint.SetValueDeserializer(new OrderBytes());
                endpoint.UseMessageRetry(retry => retry.Intervals(OrderConsumer.Waits).Handle<PaymentException>());
                endpoint.ConfigureConsumer<OrderConsumer>(context);
            });
        });
    });
});

var app = builder.Build();
app.MapHealthChecks("/health"); // MassTransit's
app.Run();
