package com.example.receipts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.example.receipts.Receipts.NoCheckoutException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class ReceiptsTest {
  private final Receipts receipts = new Receipts();

  @Test
  void aReceiptHasNamesAndPrices() throws Exception {
    byte[] receipt = receipts.of(TransformerTest.checkout("7a1f0c2e-5b3d-4e6f-8a90-b1c2d3e4f506"));
    assertEquals("{\"receiptFor\":\"7a1f0c2e-5b3d-4e6f-8a90-b1c2d3e4f506\",\"store\":\"B\",\"lines\":"
        + "[{\"name\":\"Fineliner\",\"quantity\":2,\"cents\":298}],\"total\":298}",
        new String(receipt, StandardCharsets.UTF_8));
  }

  @Test
  void somethingElseHasNoReceipt() {
    for (String value : new String[] {"", "null", "[]", "{}", "{\"checkoutId\":7}", "{\"checkoutId\":\"x\"}",
        "{\"checkoutId\":\"7a1f0c2e-5b3d-4e6f-8a90-b1c2d3e4f506\",\"store\":\"B\",\"items\":[]}",
        "{\"checkoutId\":\"7a1f0c2e-5b3d-4e6f-8a90-b1c2d3e4f506\",\"store\":\"B\",\"items\":[{\"sku\":\"1\",\"quantity\":1}]}",
        "{\"checkoutId\":\"7a1f0c2e-5b3d-4e6f-8a90-b1c2d3e4f506\",\"sto"}) {
      assertThrows(NoCheckoutException.class, () -> receipts.of(value.getBytes(StandardCharsets.UTF_8)), value);
    }
    assertThrows(NoCheckoutException.class, () -> receipts.of(null));
  }
}
