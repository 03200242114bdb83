package com.example.claims;

import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import com.example.claims.ClaimListener.FailedException;
import com.example.claims.RiskService.RefusedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.dao.TransientDataAccessResourceException;
import org.springframework.http.HttpStatus;
import org.springframework.web.client.HttpServerErrorException;
import org.springframework.web.client.ResourceAccessException;

class ClaimListenerTest {
  private final ClaimReader reader = mock();
  private final RiskService risks = mock();
  private final ClaimRepository claims = mock();

  private void listen() {
    when(reader.read(any())).thenReturn(ClaimReaderTest.claim());
    new ClaimListener(reader, risks, claims).on(new ConsumerRecord<>("claims", 0, 0, null, new byte[0]));
  }

  /** Else they would not be counted together. */
  @Test
  void allFailuresAreOfOneClass() {
    when(risks.of(any())).thenThrow(new HttpServerErrorException(HttpStatus.SERVICE_UNAVAILABLE))
        .thenThrow(new ResourceAccessException("timeout")).thenReturn(17);
    when(claims.save(any())).thenThrow(new TransientDataAccessResourceException("connection lost"));
    for (int i = 0; i < 3; i++) {
      assertThatThrownBy(this::listen).isExactlyInstanceOf(FailedException.class);
    }
  }

  @Test
  void refusalsStayWhatTheyAre() {
    when(risks.of(any())).thenThrow(new RefusedException("422", null)).thenReturn(17);
    when(claims.save(any())).thenThrow(new DataIntegrityViolationException("too long"));
    assertThatThrownBy(this::listen).isExactlyInstanceOf(RefusedException.class);
    assertThatThrownBy(this::listen).isExactlyInstanceOf(DataIntegrityViolationException.class);
  }
}
