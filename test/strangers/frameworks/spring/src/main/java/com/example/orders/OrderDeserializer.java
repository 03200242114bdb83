package com.example.orders;

import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;
import org.springframework.boot.json.JsonParseException;
import org.springframework.boot.json.JsonParserFactory;

/** Refuses what is not an order, a JSON object with an id. What it accepts stays the bytes that came. */
public final class OrderDeserializer implements Deserializer<byte[]> {
  @Override
  public byte[] deserialize(String topic, byte[] data) {
    if (data == null) {
      return null;
    }
    try {
      var order = JsonParserFactory.getJsonParser().parseMap(new String(data, java.nio.charset.StandardCharsets.UTF_8));
      if (order.get("id") instanceof String) {
        return data;
      }
    } catch (JsonParseException e) {
      throw new SerializationException("not JSON", e);
    }
    throw new SerializationException("not an order: a JSON object with an id is expected");
  }
}
