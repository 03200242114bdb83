// A service on KafkaFlow as its documentation writes one: ten workers, and a chain of middlewares. KafkaFlow completes a
// message whatever its middlewares throw, so the first of them writes the dead letters, and the second one retries.
using KafkaFlow;
using Orders;

var builder = Host.CreateApplicationBuilder(args);
var settings = builder.Configuration.GetSection("Kafka");

builder.Services.AddHttpClient<Payments>(client =>
{
    client.BaseAddress = new Uri(builder.Configuration["Payments:Url"]!);
    client.Timeout = TimeSpan.FromSeconds(1);
});
builder.Services.AddKafkaFlowHostedService(kafka => kafka
    .UseMicrosoftLog()
    .AddCluster(cluster => cluster
        .WithBrokers([settings["Brokers"]])
        .AddProducer<DeadLetterMiddleware>(producer => producer
            .DefaultTopic(settings["DeadLetterTopic"])
            .WithProducerConfig(new() { MessageMaxBytes = 1048588 })) // a dead letter is a little larger than its record
        .AddConsumer(consumer => consumer
            .Topic(settings["Topic"])
            .WithGroupId(settings["Group"])
            .WithAutoOffsetReset(AutoOffsetReset.Earliest)
            .WithBufferSize(100)
            .WithWorkersCount(10)
            .AddMiddlewares(middlewares => middlewares
                .Add<DeadLetterMiddleware>()
                .Add<RetryMiddleware>()
                .Add<ChargeMiddleware>()))));

builder.Build().Run();
