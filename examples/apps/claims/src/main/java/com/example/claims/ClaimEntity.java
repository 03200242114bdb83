package com.example.claims;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.time.LocalDate;
import java.util.UUID;

@Entity
@Table(name = "claim")
class ClaimEntity {
  @Id private UUID id;
  private String policy;
  private String kind;
  private long cents;
  @Column(name = "happened_on") private LocalDate happenedOn;
  private int risk;

  protected ClaimEntity() {}

  ClaimEntity(Claim claim, int risk) {
    this.id = UUID.fromString(claim.getClaimId());
    this.policy = claim.getPolicy();
    this.kind = claim.getKind().name();
    this.cents = claim.getCents();
    this.happenedOn = claim.getHappenedOn();
    this.risk = risk;
  }
}
