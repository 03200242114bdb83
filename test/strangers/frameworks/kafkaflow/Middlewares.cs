using KafkaFlow;

namespace Orders;

public class ChargeMiddleware(Payments payments) : IMessageMiddleware
{
    public Task Invoke(IMessageContext context, MiddlewareDelegate next) =>
        payments.ChargeAsync(context.Message.Value as byte[] ?? [], context.ConsumerContext.WorkerStopped);
}

public class RetryMiddleware : IMessageMiddleware
{
    private const int MaxAttempts = 3;

    public async Task Invoke(IMessageContext context, MiddlewareDelegate next)
    {
        var wait = TimeSpan.FromMilliseconds(100);
        for (var attempt = 1; ; attempt++, wait *= 2)
        {
            try
            {
                await next(context);
                return;
            }
            catch (PaymentException e)
            {
                e.Attempts = attempt;
                if (e.Permanent || attempt == MaxAttempts)
                {
                    throw;
                }
            }
            await Task.Delay(wait, context.ConsumerContext.WorkerStopped);
        }
    }
}

/// <summary>Writes what could not be charged to the dead-letter topic, until it is acknowledged.</summary>
public class DeadLetterMiddleware(IMessageProducer<DeadLetterMiddleware> letters, ILogger<DeadLetterMiddleware> log)
    : IMessageMiddleware
{
    /// <summary>
    /// Mistakes that tests plant, to see them named: a refused dead letter is thrown, as if KafkaFlow held the message
    /// back then; and the dead letter is not awaited, as with Produce.
    /// </summary>
    private static readonly string? Planted = Environment.GetEnvironmentVariable("PLANTED_BUG");

    public async Task Invoke(IMessageContext context, MiddlewareDelegate next)
    {
        try
        {
            await next(context);
        }
        catch (PaymentException e)
        {
            await WriteAsync(context, e);
        }
    }

    private async Task WriteAsync(IMessageContext context, PaymentException failure)
    {
        var from = context.ConsumerContext;
        var headers = new MessageHeaders();
        foreach (var (name, value) in context.Headers)
        {
            headers.Add(name, value);
        }
        headers.SetString("orders.topic", from.Topic);
        headers.SetString("orders.partition", from.Partition.ToString());
        headers.SetString("orders.offset", from.Offset.ToString());
        headers.SetString("orders.attempts", failure.Attempts.ToString());
        headers.SetString("orders.reason", failure.Message);
        while (true)
        {
            try
            {
                var written = letters.ProduceAsync(context.Message.Key, context.Message.Value, headers);
                if (Planted is not "not-awaited")
                {
                    await written;
                }
                return;
            }
            catch (Exception e) when (Planted is not "refusal-thrown")
            {
                log.LogError(e, "Dead letter of {Partition}/{Offset} not written", from.Partition, from.Offset);
            }
            await Task.Delay(TimeSpan.FromMilliseconds(500), from.WorkerStopped);
        }
    }
}
