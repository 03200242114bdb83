package com.example.claims;

import java.net.http.HttpClient;
import java.time.Duration;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.http.client.ClientHttpRequestFactory;
import org.springframework.http.client.JdkClientHttpRequestFactory;
import org.springframework.web.client.RestClient;

@SpringBootApplication
public class ClaimsApplication {
  public static void main(String[] args) {
    SpringApplication.run(ClaimsApplication.class, args);
  }

  @Bean
  ClientHttpRequestFactory requests() {
    var requests = new JdkClientHttpRequestFactory(HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofMillis(500)).build());
    requests.setReadTimeout(Duration.ofMillis(500));
    return requests;
  }

  @Bean
  SchemaRegistry schemaRegistry(RestClient.Builder http, ClientHttpRequestFactory requests,
      @Value("${claims.registry}") String url) {
    return new SchemaRegistry(http.clone().requestFactory(requests).baseUrl(url).build());
  }

  @Bean
  RiskService riskService(RestClient.Builder http, ClientHttpRequestFactory requests,
      @Value("${claims.risk}") String url) {
    return new RiskService(http.clone().requestFactory(requests).baseUrl(url).build());
  }
}
