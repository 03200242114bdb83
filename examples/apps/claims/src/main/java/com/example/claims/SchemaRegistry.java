package com.example.claims;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;
import org.apache.avro.SchemaParseException;
import org.springframework.web.client.HttpClientErrorException;
import org.springframework.web.client.RestClient;
import org.springframework.web.client.RestClientException;

/** The schemas with which claims are written. Each is asked for once. */
class SchemaRegistry {
  private final RestClient http;
  private final Map<Integer, Schema> known = new ConcurrentHashMap<>();

  SchemaRegistry(RestClient http) {
    this.http = http;
  }

  private record Answer(String schema) {}

  /** Returns a schema, null if there is none with this id. */
  Schema byId(int id) {
    return known.computeIfAbsent(id, this::ask);
  }

  private Schema ask(int id) {
    try {
      Answer answer = http.get().uri("/schemas/ids/{id}", id).retrieve().body(Answer.class);
      return new Schema.Parser().parse(answer.schema());
    } catch (HttpClientErrorException.NotFound e) {
      return null;
    } catch (RestClientException | SchemaParseException | NullPointerException e) {
      throw new UnavailableException("the schema registry does not tell the schema " + id, e);
    }
  }

  /** Nothing is known of the claim as long as the registry is away, so it waits. */
  static class UnavailableException extends RuntimeException {
    UnavailableException(String message, Throwable cause) {
      super(message, cause);
    }
  }
}
