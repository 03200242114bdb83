package com.example.orders;

/** A payment that may succeed when it is tried again. */
public class PaymentFailedException extends RuntimeException {
  public PaymentFailedException(Throwable cause) {
    super(cause.getMessage(), cause);
  }
}
