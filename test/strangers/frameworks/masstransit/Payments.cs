using System.Net;

namespace Orders;

public class PaymentException(string reason, bool permanent) : Exception(reason)
{
    public bool Permanent => permanent;
}

/// <summary>The service that charges orders.</summary>
public class Payments(HttpClient http)
{
    public async Task ChargeAsync(Order order, CancellationToken cancellation)
    {
        using var content = new ByteArrayContent(order.Bytes ?? []);
        content.Headers.ContentType = new("application/json");
        try
        {
            using var response = await http.PostAsync("v1/attempt", content, cancellation);
            if (!response.IsSuccessStatusCode)
            {
                var answer = await response.Content.ReadFromJsonAsync<Answer>(cancellation);
                throw new PaymentException(answer?.Error ?? response.ReasonPhrase ?? "", permanent:
                    response.StatusCode is HttpStatusCode.BadRequest or HttpStatusCode.UnprocessableEntity);
            }
        }
        catch (Exception e) when (e is not PaymentException && !cancellation.IsCancellationRequested)
        {
            throw new PaymentException(e.Message, permanent: false);
        }
    }

    private record Answer(string? Error);
}
