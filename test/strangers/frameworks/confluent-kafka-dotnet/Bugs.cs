namespace Orders;

/// <summary>Mistakes that tests plant with PLANTED_BUG, to see them named.</summary>
public static class Bugs
{
    /// <summary>EnableAutoOffsetStore has its default, so Consume stores the offset of what it returns.</summary>
    public const string StoredByClient = "stored-by-client";

    /// <summary>Dead letters are written with Produce, and a delivery handler logs those that are refused.</summary>
    public const string ReportLogged = "report-logged";

    /// <summary>The loop starts a task for each message, and does not await it.</summary>
    public const string NotAwaited = "not-awaited";

    /// <summary>A timeout of HttpClient is an OperationCanceledException, and is taken for the stop.</summary>
    public const string TimeoutIsTheStop = "timeout-is-the-stop";

    /// <summary>Keys and values are read as text, as by IConsumer&lt;string, string&gt;.</summary>
    public const string ReadAsText = "read-as-text";

    public static readonly string? Planted = Environment.GetEnvironmentVariable("PLANTED_BUG");
}
