package com.example.orders;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;

/** Refuses what is not an order, a JSON object with an id. What it accepts stays the bytes that came, to be sent on. */
final class OrderDeserializer implements Deserializer<byte[]> {
  private final ObjectMapper json = new ObjectMapper();

  @Override
  public byte[] deserialize(String topic, byte[] data) {
    if (data == null) {
      return null;
    }
    try {
      JsonNode order = json.readTree(data);
      if (order == null || !order.path("id").isTextual()) {
        throw new SerializationException("not an order: a JSON object with an id is expected");
      }
      return data;
    } catch (IOException e) {
      throw new SerializationException("not JSON", e);
    }
  }
}
