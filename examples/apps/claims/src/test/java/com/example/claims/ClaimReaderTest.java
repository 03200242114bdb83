package com.example.claims;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.example.claims.ClaimReader.UnreadableException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.time.LocalDate;
import java.util.Arrays;
import org.apache.avro.Schema;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.specific.SpecificDatumWriter;
import org.junit.jupiter.api.Test;

class ClaimReaderTest {
  static final String ID = "3f8c1d20-6b7a-4c59-9e48-0d1c2b3a4f5e";

  private final ClaimReader reader = new ClaimReader(new SchemaRegistry(null) {
    @Override
    Schema byId(int id) {
      return id == 7 ? Claim.getClassSchema() : null;
    }
  });

  static Claim claim() {
    return Claim.newBuilder().setClaimId(ID).setPolicy("HH-1").setKind(Kind.FIRE).setCents(100)
        .setHappenedOn(LocalDate.of(2026, 2, 27)).build();
  }

  private static byte[] written(Claim claim, int schema) throws IOException {
    var out = new ByteArrayOutputStream();
    out.write(new byte[] {0, 0, 0, 0, (byte) schema});
    var encoder = EncoderFactory.get().binaryEncoder(out, null);
    new SpecificDatumWriter<>(Claim.class).write(claim, encoder);
    encoder.flush();
    return out.toByteArray();
  }

  @Test
  void aClaimIsRead() throws IOException {
    assertThat(reader.read(written(claim(), 7))).isEqualTo(claim());
  }

  @Test
  void somethingElseIsNot() throws IOException {
    byte[] good = written(claim(), 7);
    var noId = claim();
    noId.setClaimId("x");
    var free = claim();
    free.setCents(0);
    byte[] endless = {0, 0, 0, 0, 7, -1, -1, -1, -1, -1, -1, 0}; // a text of terabytes
    byte[] huge = {0, 0, 0, 0, 7, -14, -1, -1, -1, 15}; // and one of two gigabytes
    for (byte[] value : new byte[][] {null, {}, "{\"claimId\":1}".getBytes(), written(claim(), 8), written(noId, 7),
        written(free, 7), Arrays.copyOf(good, good.length - 3), Arrays.copyOf(good, good.length + 1), endless, huge}) {
      assertThatThrownBy(() -> reader.read(value)).isInstanceOf(UnreadableException.class);
    }
  }
}
