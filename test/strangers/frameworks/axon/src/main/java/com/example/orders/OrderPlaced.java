package com.example.orders;

/** The event that an order was placed. */
public record OrderPlaced(String orderId, long cents, String currency) {
}
