package com.example.orders;

/** A payment that no retry helps. */
class PaymentRefusedException extends RuntimeException {
  PaymentRefusedException(String message) {
    super(message);
  }
}
