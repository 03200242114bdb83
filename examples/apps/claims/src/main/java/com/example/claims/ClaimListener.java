package com.example.claims;

import com.example.claims.RiskService.NotInsuredException;
import com.example.claims.RiskService.RefusedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.stereotype.Component;

/** Stores each claim with its risk. A claim that comes again is stored once, by its id. */
@Component
class ClaimListener {
  private static final Logger log = LoggerFactory.getLogger(ClaimListener.class);

  private final ClaimReader reader;
  private final RiskService risks;
  private final ClaimRepository claims;

  ClaimListener(ClaimReader reader, RiskService risks, ClaimRepository claims) {
    this.reader = reader;
    this.risks = risks;
    this.claims = claims;
  }

  @KafkaListener(topics = "claims")
  void on(ConsumerRecord<byte[], byte[]> record) {
    Claim claim = reader.read(record.value());
    try {
      claims.save(new ClaimEntity(claim, risks.of(claim)));
    } catch (NotInsuredException e) {
      log.info("The claim {} is not insured: {}", claim.getClaimId(), e.getMessage());
    } catch (RefusedException | DataIntegrityViolationException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new FailedException(e);
    }
  }

  /**
   * Neither the risk service nor the database has refused the claim. It is one class for all failures, because
   * DefaultErrorHandler counts anew when a failure of another class follows, such as a timeout after a 503.
   */
  static class FailedException extends RuntimeException {
    FailedException(RuntimeException cause) {
      super(cause.getMessage(), cause);
    }
  }
}
