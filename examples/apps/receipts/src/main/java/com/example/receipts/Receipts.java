package com.example.receipts;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;

/** Makes receipts of checkouts, with the names and the prices of what was bought. */
final class Receipts {
  private static final ObjectMapper JSON = new ObjectMapper();

  private record Product(String name, long cents) {}

  private final Map<String, Product> products = new HashMap<>();

  /** Reads the price list, which has lines of SKU, name and price in cents. */
  Receipts() {
    try (var lines = new BufferedReader(
        new InputStreamReader(Receipts.class.getResourceAsStream("/prices.csv"), StandardCharsets.UTF_8))) {
      for (String line; (line = lines.readLine()) != null; ) {
        String[] parts = line.split(",");
        products.put(parts[0], new Product(parts[1], Long.parseLong(parts[2])));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns the receipt of a checkout. */
  byte[] of(byte[] checkout) throws NoCheckoutException {
    try {
      JsonNode read = JSON.readTree(checkout == null ? new byte[0] : checkout);
      ObjectNode receipt = JSON.createObjectNode();
      receipt.put("receiptFor", UUID.fromString(read.required("checkoutId").textValue()).toString());
      receipt.put("store", read.required("store").textValue());
      long total = 0;
      for (JsonNode item : read.required("items")) {
        Product product = products.get(item.required("sku").asText());
        int quantity = item.required("quantity").intValue();
        if (product == null || quantity < 1) {
          throw new NoCheckoutException("there is no price for " + item, null);
        }
        receipt.withArray("lines").addObject()
            .put("name", product.name).put("quantity", quantity).put("cents", quantity * product.cents);
        total += quantity * product.cents;
      }
      if (total == 0) {
        throw new NoCheckoutException("nothing was bought", null);
      }
      return JSON.writeValueAsBytes(receipt.put("total", total));
    } catch (IOException | IllegalArgumentException | NullPointerException e) {
      throw new NoCheckoutException("this is not a checkout: " + e.getMessage(), e);
    }
  }

  /** The record has no receipt, and never will. */
  static final class NoCheckoutException extends Exception {
    NoCheckoutException(String reason, Throwable cause) {
      super(reason, cause);
    }
  }
}
