package com.example.claims;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.springframework.test.web.client.match.MockRestRequestMatchers.jsonPath;
import static org.springframework.test.web.client.match.MockRestRequestMatchers.method;
import static org.springframework.test.web.client.match.MockRestRequestMatchers.requestTo;
import static org.springframework.test.web.client.response.MockRestResponseCreators.withStatus;
import static org.springframework.test.web.client.response.MockRestResponseCreators.withSuccess;

import com.example.claims.RiskService.NotInsuredException;
import com.example.claims.RiskService.RefusedException;
import org.junit.jupiter.api.Test;
import org.springframework.http.HttpMethod;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.test.web.client.MockRestServiceServer;
import org.springframework.test.web.client.ResponseCreator;
import org.springframework.web.client.HttpClientErrorException;
import org.springframework.web.client.HttpServerErrorException;
import org.springframework.web.client.RestClient;

class RiskServiceTest {
  private static RiskService answering(ResponseCreator answer) {
    RestClient.Builder http = RestClient.builder().baseUrl("http://risks");
    MockRestServiceServer.bindTo(http).build()
        .expect(requestTo("http://risks/risks/" + ClaimReaderTest.ID)).andExpect(method(HttpMethod.PUT))
        .andExpect(jsonPath("$.cents").value(100)).andRespond(answer);
    return new RiskService(http.build());
  }

  @Test
  void theRiskOfAClaim() {
    var service = answering(withSuccess("{\"risk\": 17, \"model\": \"m3\"}", MediaType.APPLICATION_JSON));
    assertThat(service.of(ClaimReaderTest.claim())).isEqualTo(17);
  }

  @Test
  void failures() {
    assertThatThrownBy(() -> answering(withStatus(HttpStatus.CONFLICT)).of(ClaimReaderTest.claim()))
        .isInstanceOf(NotInsuredException.class);
    assertThatThrownBy(() -> answering(withStatus(HttpStatus.UNPROCESSABLE_ENTITY)).of(ClaimReaderTest.claim()))
        .isInstanceOf(RefusedException.class);
    assertThatThrownBy(() -> answering(withStatus(HttpStatus.TOO_MANY_REQUESTS)).of(ClaimReaderTest.claim()))
        .isInstanceOf(HttpClientErrorException.class);
    assertThatThrownBy(() -> answering(withStatus(HttpStatus.SERVICE_UNAVAILABLE)).of(ClaimReaderTest.claim()))
        .isInstanceOf(HttpServerErrorException.class);
  }
}
