package com.example.claims;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.UUID;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.specific.SpecificDatumReader;
import org.springframework.stereotype.Component;

/** Reads claims in the format of the registry's serializers: a zero byte, the schema's id, and Avro. */
@Component
class ClaimReader {
  static {
    // Avro allocates what a text says that it is long, before it reads it: two gigabytes, if the record is no claim. A
    // Kafka record is smaller. Avro reads the limits when it decodes first.
    System.setProperty("org.apache.avro.limits.string.maxLength", "1048576");
    System.setProperty("org.apache.avro.limits.bytes.maxLength", "1048576");
  }

  private final SchemaRegistry registry;

  ClaimReader(SchemaRegistry registry) {
    this.registry = registry;
  }

  Claim read(byte[] value) {
    if (value == null || value.length < 6 || value[0] != 0) {
      throw new UnreadableException("this is not a claim", null);
    }
    int id = ByteBuffer.wrap(value, 1, 4).getInt();
    Schema written = registry.byId(id);
    if (written == null) {
      throw new UnreadableException("nobody knows the schema " + id, null);
    }
    try {
      var reader = new SpecificDatumReader<Claim>(written, Claim.getClassSchema());
      var decoder = DecoderFactory.get().binaryDecoder(value, 5, value.length - 5, null);
      Claim claim = reader.read(null, decoder);
      UUID.fromString(claim.getClaimId());
      if (!decoder.isEnd() || claim.getCents() <= 0) {
        throw new UnreadableException("this is not a claim", null);
      }
      return claim;
    } catch (IOException | AvroRuntimeException | IllegalArgumentException | IndexOutOfBoundsException
        | UnsupportedOperationException e) {
      throw new UnreadableException("this is not a claim: " + e.getMessage(), e);
    }
  }

  /** The record is not a claim, however often it is read. */
  static class UnreadableException extends RuntimeException {
    UnreadableException(String message, Throwable cause) {
      super(message, cause);
    }
  }
}
