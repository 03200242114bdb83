using System.Net;
using System.Net.Http.Json;

namespace Orders;

/// <summary>The service that charges orders.</summary>
public class Payments(HttpClient http)
{
    /// <summary>Charges the order, and returns why it failed, or null.</summary>
    public async Task<Failure?> ChargeAsync(byte[] order, CancellationToken stopping)
    {
        try
        {
            using var content = new ByteArrayContent(order);
            content.Headers.ContentType = new("application/json");
            using var response = await http.PostAsync("v1/attempt", content, stopping);
            if (response.IsSuccessStatusCode)
            {
                return null;
            }
            var answer = await response.Content.ReadFromJsonAsync<Answer>(stopping);
            return new Failure(answer?.Error ?? response.ReasonPhrase ?? "", Permanent:
                response.StatusCode is HttpStatusCode.BadRequest or HttpStatusCode.UnprocessableEntity);
        }
        catch (OperationCanceledException) when (stopping.IsCancellationRequested || Bugs.Planted is Bugs.TimeoutIsTheStop)
        {
            throw;
        }
        catch (Exception e)
        {
            return new Failure(e.Message, Permanent: false); // also TaskCanceledException, which is the timeout
        }
    }

    private record Answer(string? Error);
}

public record Failure(string Reason, bool Permanent);
