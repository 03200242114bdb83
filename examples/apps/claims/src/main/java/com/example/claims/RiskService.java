package com.example.claims;

import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.web.client.HttpClientErrorException;
import org.springframework.web.client.RestClient;

/** Another service, which says how likely a claim is a fraud. */
class RiskService {
  private final RestClient http;

  RiskService(RestClient http) {
    this.http = http;
  }

  private record Answer(int risk) {}

  /** Returns the risk from 0 to 100. Asking again gives the same answer. */
  int of(Claim claim) {
    try {
      Answer answer = http.put().uri("/risks/{id}", claim.getClaimId())
          .body(Map.of("policy", claim.getPolicy(), "kind", claim.getKind().name(), "cents", claim.getCents()))
          .retrieve().body(Answer.class);
      return answer.risk();
    } catch (HttpClientErrorException e) {
      if (e.getStatusCode().isSameCodeAs(HttpStatus.CONFLICT)) {
        throw new NotInsuredException(e.getResponseBodyAsString());
      }
      if (e.getStatusCode().isSameCodeAs(HttpStatus.TOO_MANY_REQUESTS)) {
        throw e;
      }
      throw new RefusedException(e.getStatusCode() + " " + e.getResponseBodyAsString(), e);
    }
  }

  /** The policy does not cover the claim: the sales department has told the customer so. */
  static class NotInsuredException extends RuntimeException {
    NotInsuredException(String message) {
      super(message);
    }
  }

  /** The service will never accept this claim. */
  static class RefusedException extends RuntimeException {
    RefusedException(String message, Throwable cause) {
      super(message, cause);
    }
  }
}
