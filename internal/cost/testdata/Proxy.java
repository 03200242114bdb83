import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/** Starts Kroxylicious as its application does, from a release or from the jars that Maven Central has of it. */
final class Proxy {
  public static void main(String[] args) throws Exception {
    ConfigParser parser = new ConfigParser();
    var configuration = parser.parseConfiguration(Files.readString(Path.of(args[0])));
    new KafkaProxy(parser, configuration, Features.defaultFeatures()).startup();
    Thread.currentThread().join();
  }
}
