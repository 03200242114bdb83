using System.Text;
using Confluent.Kafka;

namespace Orders;

public class OrdersWorker(
    IConsumer<byte[], byte[]> consumer, IProducer<byte[], byte[]> producer, Payments payments,
    IConfiguration configuration, ILogger<OrdersWorker> log) : BackgroundService
{
    private const int MaxAttempts = 3;
    private static readonly TimeSpan Backoff = TimeSpan.FromMilliseconds(100); // twice as long after each attempt

    private readonly string topic = configuration["Kafka:Topic"]!;
    private readonly string letters = configuration["Kafka:DeadLetterTopic"]!;

    // Consume blocks, so the loop has a task of its own.
    protected override Task ExecuteAsync(CancellationToken stopping) => Task.Run(() => LoopAsync(stopping), stopping);

    private async Task LoopAsync(CancellationToken stopping)
    {
        consumer.Subscribe(topic);
        try
        {
            while (!stopping.IsCancellationRequested)
            {
                await NextAsync(stopping);
            }
        }
        catch (OperationCanceledException)
        {
            log.LogInformation("Stopping"); // the message under way is the next owner's
        }
        finally
        {
            consumer.Close(); // commits what is stored, and leaves the group
        }
    }

    private async Task NextAsync(CancellationToken stopping)
    {
        try
        {
            var result = consumer.Consume(stopping);
            var processed = ProcessAsync(result, stopping);
            if (Bugs.Planted is not Bugs.NotAwaited)
            {
                await processed;
            }
            if (Bugs.Planted is not Bugs.StoredByClient)
            {
                consumer.StoreOffset(result);
            }
        }
        catch (ConsumeException e) when (!e.Error.IsFatal)
        {
            log.LogWarning("Not consumed: {Error}", e.Error);
        }
        catch (KafkaException e) when (e.Error.Code == ErrorCode.Local_State)
        {
            log.LogWarning("Not stored, as its partition was taken away: {Error}", e.Error);
        }
    }

    private async Task ProcessAsync(ConsumeResult<byte[], byte[]> result, CancellationToken stopping)
    {
        var wait = Backoff;
        for (var attempt = 1; ; attempt++, wait *= 2)
        {
            var failure = await payments.ChargeAsync(result.Message.Value ?? [], stopping);
            if (failure is null)
            {
                return;
            }
            log.LogInformation("Attempt {Attempt} at {Message} failed: {Reason}", attempt,
                result.TopicPartitionOffset, failure.Reason);
            if (failure.Permanent || attempt == MaxAttempts)
            {
                await DeadLetterAsync(result, attempt, failure, stopping);
                return;
            }
            await Task.Delay(wait, stopping);
        }
    }

    /// <summary>Writes the message to the dead-letter topic until it is acknowledged.</summary>
    private async Task DeadLetterAsync(ConsumeResult<byte[], byte[]> result, int attempts, Failure failure,
        CancellationToken stopping)
    {
        var letter = Letter(result, attempts, failure);
        if (Bugs.Planted is Bugs.ReportLogged)
        {
            producer.Produce(letters, letter, report =>
            {
                if (report.Error.IsError)
                {
                    log.LogError("Dead letter of {Message} not written: {Error}", result.TopicPartitionOffset, report.Error);
                }
            });
            return;
        }
        while (true)
        {
            try
            {
                await producer.ProduceAsync(letters, letter, stopping);
                return;
            }
            catch (ProduceException<byte[], byte[]> e)
            {
                log.LogError("Dead letter of {Message} not written: {Error}", result.TopicPartitionOffset, e.Error);
            }
            await Task.Delay(TimeSpan.FromMilliseconds(500), stopping);
        }
    }

    private static Message<byte[], byte[]> Letter(ConsumeResult<byte[], byte[]> result, int attempts, Failure failure)
    {
        var headers = new Headers();
        foreach (var header in result.Message.Headers)
        {
            headers.Add(header.Key, header.GetValueBytes());
        }
        headers.Add("orders.topic", Encoding.UTF8.GetBytes(result.Topic));
        headers.Add("orders.partition", Encoding.UTF8.GetBytes(result.Partition.Value.ToString()));
        headers.Add("orders.offset", Encoding.UTF8.GetBytes(result.Offset.Value.ToString()));
        headers.Add("orders.attempts", Encoding.UTF8.GetBytes(attempts.ToString()));
        headers.Add("orders.reason", Encoding.UTF8.GetBytes(failure.Reason));
        return new() { Key = Read(result.Message.Key)!, Value = Read(result.Message.Value)!, Headers = headers };
    }

    private static byte[]? Read(byte[]? bytes) => bytes is null || Bugs.Planted is not Bugs.ReadAsText
        ? bytes
        : Encoding.UTF8.GetBytes(Encoding.UTF8.GetString(bytes));
}
