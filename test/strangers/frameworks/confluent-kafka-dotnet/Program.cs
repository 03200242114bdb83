// A worker service on Confluent.Kafka as its examples write one: a BackgroundService with a loop over Consume, which
// stores the offset of a message when the message is finished. librdkafka commits what is stored every five seconds and
// at the close. All settings of the client are its defaults, but for what the work needs.
using Confluent.Kafka;
using Orders;

var builder = Host.CreateApplicationBuilder(args);
var kafka = builder.Configuration.GetSection("Kafka");

builder.Services.AddHttpClient<Payments>(client =>
{
    client.BaseAddress = new Uri(builder.Configuration["Payments:Url"]!);
    client.Timeout = TimeSpan.FromSeconds(1);
});
builder.Services.AddSingleton(services =>
{
    var log = services.GetRequiredService<ILogger<IConsumer<byte[], byte[]>>>();
    var config = kafka.GetSection("Consumer").Get<ConsumerConfig>()!;
    if (Bugs.Planted is Bugs.StoredByClient)
    {
        config.EnableAutoOffsetStore = null;
    }
    return new ConsumerBuilder<byte[], byte[]>(config)
        .SetErrorHandler((_, error) => log.LogWarning("Consumer: {Error}", error)) // librdkafka recovers by itself
        .Build();
});
builder.Services.AddSingleton(services =>
{
    var log = services.GetRequiredService<ILogger<IProducer<byte[], byte[]>>>();
    return new ProducerBuilder<byte[], byte[]>(kafka.GetSection("Producer").Get<ProducerConfig>())
        .SetErrorHandler((_, error) => log.LogWarning("Producer: {Error}", error))
        .Build();
});
builder.Services.AddHostedService<OrdersWorker>();

builder.Build().Run();
