package com.example.orders;

import io.micronaut.runtime.Micronaut;

/** Takes the payment of each order. */
public class Application {
  public static void main(String[] args) {
    Micronaut.run(Application.class, args);
  }
}
