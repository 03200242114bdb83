package subject

import "testing"

// TestLogLevels has a line of each logging library in its own format, and its expected level.
func TestLogLevels(t *testing.T) {
	const failure, warning, lesser, unstated = levelError, levelWarning, levelLesser, levelUnstated
	for _, test := range []struct {
		what, line string
		want       level
	}{
		{".NET console", "fail: Orders.Worker[0]", failure},
		{".NET console in colours", "\x1b[41m\x1b[30mfail\x1b[39m\x1b[22m\x1b[49m: Orders.Worker[0]", failure},
		{".NET console, one line", "2026-11-22 18:28:47 crit: Orders.Worker[17] cannot write the dead letter", failure},
		{".NET console info", "info: Microsoft.Hosting.Lifetime[0]", lesser},
		{".NET console warning", "warn: Orders.Worker[0]", warning},
		{".NET JSON",
			`{"EventId":0,"LogLevel":"Error","Category":"Orders.Worker","Message":"x","State":{"{OriginalFormat}":"x"}}`,
			failure},
		{".NET JSON info",
			`{"Timestamp":"2026","EventId":0,"LogLevel":"Information","Category":"Orders.Worker","Message":"error"}`, lesser},
		{".NET systemd", "<3>Orders.Worker[0] cannot write the dead letter", failure},
		{".NET systemd info", "<6>Orders.Worker[0] error handler registered", lesser},
		{"NLog", "2026-11-22 18:28:47.1234|ERROR|Orders.Worker|cannot write", failure},
		{"Serilog", "[18:28:47 ERR] cannot write the dead letter", failure},
		{"Serilog fatal", "2026-11-22 18:28:47.123 +00:00 [FTL] x", failure},
		{"Serilog info", "[18:28:47 INF] 0 errors", lesser},
		{"Serilog compact", `{"@t":"2026-11-22T18:28:47.1234567Z","@mt":"cannot write {Topic}","@l":"Error","Topic":"dlq"}`,
			failure},
		{"Serilog compact info", `{"@t":"2026-11-22T18:28:47.1234567Z","@mt":"Error handler {Name} registered","Name":"x"}`,
			lesser},
		{"Serilog JSON", `{"Timestamp":"2026-11-22T18:28:47","Level":"Error","MessageTemplate":"x","Properties":{}}`,
			failure},
		{"Monolog", `[2026-11-22T18:28:47.123456+00:00] orders.ERROR: cannot write {"topic":"dlq"} []`, failure},
		{"Monolog info", `[2026-11-22T18:28:47.123456+00:00] orders.INFO: no ERROR {"error":null} []`, lesser},
		{"Monolog JSON",
			`{"message":"x","context":{},"level":400,"level_name":"ERROR","channel":"orders","datetime":"2026","extra":{}}`,
			failure},
		{"Monolog JSON warning", `{"message":"x","level":300,"channel":"orders"}`, warning},
		{"logrus", `time="2026-11-22T18:28:47Z" level=error msg="cannot write"`, failure},
		{"logrus in colours", "\x1b[31mERRO\x1b[0m[0012] cannot write                                topic=dlq", failure},
		{"logrus in colours, info", "\x1b[36mINFO\x1b[0m[0012] started                        error=\"<nil>\"", lesser},
		{"logrus JSON", `{"level":"error","msg":"cannot write","time":"2026-11-22T18:28:47Z"}`, failure},
		{"Rust tracing", "2026-11-22T18:28:47.123456Z ERROR orders::dlq: cannot write topic=\"dlq\"", failure},
		{"Rust tracing in colours",
			"\x1b[2m2026-11-22T18:28:47.123456Z\x1b[0m \x1b[31mERROR\x1b[0m \x1b[2morders\x1b[0m\x1b[2m:\x1b[0m cannot write",
			failure},
		{"Rust tracing info", "2026-11-22T18:28:47.123456Z  INFO orders: error=None", lesser},
		{"Rust tracing JSON", `{"timestamp":"2026","level":"ERROR","fields":{"message":"cannot write"},"target":"orders"}`,
			failure},
		{"env_logger", "[2026-11-22T18:28:47Z ERROR orders] cannot write", failure},
		{"OpenTelemetry", `{"timestamp":"1","severityText":"ERROR","severityNumber":17,"body":"x"}`, failure},
		{"OpenTelemetry, number only", `{"timeUnixNano":"1","severityNumber":18,"body":{"stringValue":"x"}}`, failure},
		{"OpenTelemetry info", `{"severityText":"INFO","severityNumber":9,"body":"error"}`, lesser},
		{"OTLP",
			`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":9},{"severityNumber":17,` +
				`"severityText":"ERROR"}]}]}]}`, failure},
		{"OTLP info", `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":9}]}]}]}`, lesser},
		{"GELF", `{"version":"1.1","host":"a","short_message":"cannot write","timestamp":1.5,"level":3,"_logger":"orders"}`,
			failure},
		{"GELF info", `{"version":"1.1","host":"a","short_message":"error","level":6}`, lesser},
		{"syslog", "<11>1 2026-11-22T18:28:47.123Z host orders 1234 - - cannot write", failure},
		{"syslog of old", "<11>Nov 22 18:28:47 host orders[1234]: cannot write", failure},
		{"syslog info", "<14>1 2026-11-22T18:28:47.123Z host orders 1234 - - ERROR is a word", lesser},
		{"librdkafka", "%3|1690000000.123|FAIL|orders#producer-1| [thrd:127.0.0.1:9092/1]: Connection refused", failure},
		{"librdkafka warning", "%4|1690000000.123|REQTMOUT|orders#producer-1| [thrd:x]: Timed out ProduceRequest in flight",
			warning},
		{"librdkafka debug", "%7|1690000000.123|PRODUCE|orders#producer-1| ERROR", lesser},
		{"log4j", "2026-11-22 18:28:47,123 ERROR [main] c.e.Orders: cannot write", failure},
		{"log4j, padded", "18:28:47.123 [kafka-producer-network-thread | p] WARN  o.a.k.c.NetworkClient - x", warning},
		{"log4j JSON", `{"instant":{"epochSecond":1},"thread":"main","level":"ERROR","loggerName":"x","message":"x"}`,
			failure},
		{"logback", "18:28:47.123 [main] ERROR c.e.orders.Consumer -- cannot write", failure},
		{"Spring Boot",
			"2026-11-22T18:28:47.123Z ERROR 1 --- [orders] [ntainer#0-0-C-1] o.s.k.l.KafkaMessageListenerContainer : x",
			failure},
		{"ECS", `{"@timestamp":"2026","log.level":"ERROR","message":"x"}`, failure},
		{"ECS, nested", `{"@timestamp":"2026","log":{"level":"error","logger":"x"},"message":"x"}`, failure},
		{"Quarkus", "2026-11-22 18:28:47,123 ERROR [com.exa.Orders] (vert.x-eventloop-thread-1) x", failure},
		{"slf4j-simple", "[main] ERROR com.example.Orders - cannot write", failure},
		{"Java util logging", "SEVERE: cannot write", failure},
		{"Java util logging, head", "Nov 22, 2026 6:28:47 PM com.example.Orders run", unstated},
		{"Java util logging info", "INFO: 0 errors", lesser},
		{"pino", `{"level":50,"time":1690000000123,"pid":1,"hostname":"a","msg":"cannot write"}`, failure},
		{"pino fatal", `{"level":60,"time":1690000000123,"msg":"x"}`, failure},
		{"pino warning", `{"level":40,"time":1690000000123,"msg":"x"}`, warning},
		{"pino-pretty", "[18:28:47.123] \x1b[31mERROR\x1b[39m (1234): \x1b[36mcannot write\x1b[39m", failure},
		{"bunyan", `{"name":"orders","hostname":"a","pid":1,"level":50,"msg":"x","time":"2026","v":0}`, failure},
		{"winston", `{"level":"error","message":"cannot write"}`, failure},
		{"winston simple, info", "info: error handler registered", lesser},
		{"winston simple in colours, info", "\x1b[32minfo\x1b[39m: 0 errors", lesser},
		{"winston with a time", "2026-11-22T18:28:47.123Z [error]: cannot write", failure},
		{"kafkajs",
			`{"level":"ERROR","timestamp":"2026-11-22T18:28:47.123Z","logger":"kafkajs","message":"[Connection] Response ` +
				`Produce(key: 0, version: 7)","error":"x"}`, failure},
		{"kafkajs info",
			`{"level":"INFO","timestamp":"2026","logger":"kafkajs","message":"[Consumer] Starting","error":null}`, lesser},
		{"NestJS", "\x1b[31m[Nest] 1  - \x1b[39m11/22/2026, 6:28:47 PM \x1b[31m  ERROR\x1b[39m \x1b[38;5;3m[OrdersService] " +
			"\x1b[39m\x1b[31mx\x1b[39m", failure},
		{"log4js", "[2026-11-22T18:28:47.123] [ERROR] default - x", failure},
		{"structlog",
			"\x1b[2m2026-11-22 18:28:47\x1b[0m [\x1b[31m\x1b[1merror    \x1b[0m] \x1b[1mcannot write\x1b[0m topic=dlq", failure},
		{"structlog info", "2026-11-22 18:28:47 [info     ] processed      error=None", lesser},
		{"structlog JSON", `{"event":"cannot write","level":"error","timestamp":"2026"}`, failure},
		{"Python", "ERROR:orders:cannot write", failure},
		{"Python info", "INFO:aiokafka.consumer.group_coordinator:Error handler registered", lesser},
		{"Python, common", "2026-11-22 18:28:47,123 - orders - ERROR - cannot write", failure},
		{"Python, levels first", "[2026-11-22 18:28:47 +0000] [7] [ERROR] x", failure},
		{"loguru", "\x1b[32m2026-11-22 18:28:47.123\x1b[0m | \x1b[31m\x1b[1mERROR   \x1b[0m | " +
			"\x1b[36m__main__\x1b[0m:\x1b[36mrun\x1b[0m:10 - x", failure},
		{"python-json-logger", `{"asctime":"2026","levelname":"ERROR","message":"x"}`, failure},
		{"slog", "2026/11/22 18:28:47 ERROR cannot write topic=dlq", failure},
		{"slog text", `time=2026-11-22T18:28:47.123Z level=ERROR msg="cannot write" topic=dlq`, failure},
		{"slog JSON", `{"time":"2026","level":"ERROR+2","msg":"cannot write"}`, failure},
		{"slog text info", `time=2026-11-22T18:28:47.123Z level=INFO msg="processed" error=null`, lesser},
		{"zap JSON", `{"level":"error","ts":1690000000.123,"caller":"orders/main.go:42","msg":"cannot write"}`, failure},
		{"zap console", "2026-11-22T18:28:47.123Z\terror\torders/main.go:42\tcannot write\t{\"topic\": \"dlq\"}", failure},
		{"zap development", "2026-11-22T18:28:47.123Z\t\x1b[31mERROR\x1b[0m\torders/main.go:42\tcannot write", failure},
		{"zap console info", "2026-11-22T18:28:47.123Z\tinfo\torders/main.go:42\terror handler registered", lesser},
		{"zerolog", `{"level":"error","time":"2026","message":"x"}`, failure},
		{"zerolog console", "\x1b[90m6:28PM\x1b[0m \x1b[1m\x1b[31mERR\x1b[0m\x1b[0m \x1b[1mcannot write\x1b[0m " +
			"\x1b[36merror=\x1b[0m\x1b[31mx\x1b[0m", failure},
		{"zerolog console info", "\x1b[90m6:28PM\x1b[0m \x1b[32mINF\x1b[0m \x1b[1mstarted\x1b[0m", lesser},
		{"hclog", "2026-11-22T18:28:47.123Z [ERROR] orders: cannot write: topic=dlq", failure},
		{"charmbracelet/log", "6:28PM ERRO cannot write topic=dlq", failure},
		{"klog", "E1122 18:28:47.123456   12345 main.go:42] cannot write", failure},
		{"klog info", "I1122 18:28:47.123456   12345 main.go:42] ERROR is a word", lesser},
		{"Ruby", "E, [2026-11-22T18:28:47.123456 #1234] ERROR -- : cannot write", failure},
		{"Ruby info", "I, [2026-11-22T18:28:47.123456 #1234]  INFO -- orders: 0 ERROR", lesser},
		{"Elixir", "18:28:47.123 [error] cannot write", failure},
		{"Elixir in colours", "\x1b[31m\n18:28:47.123 [error] cannot write\x1b[0m", failure},
		{"Erlang", "=ERROR REPORT==== 22-Nov-2026::18:28:47 ===", failure},
		{"spdlog", "[2026-11-22 18:28:47.123] [orders] [error] cannot write", failure},
		{"spdlog info", "[2026-11-22 18:28:47.123] [info] errors: 0", lesser},
		{"docker compose", `orders-1  | {"level":"error","msg":"x"}`, failure},
		{"sarama", "[sarama] 2026/11/22 18:28:47.123456 producer/broker/1 starting up", unstated},
		{"Go log", "2026/11/22 18:28:47 error handler registered", unstated},
		{"a value", "ERROR=null HTTP 200", unstated},
		{"data", `{"level":3,"name":"a"}`, unstated},
	} {
		line := plain([]byte(test.line))
		for len(line) > 0 && (line[0] == '\n' || line[0] == ' ') {
			line = line[1:]
		}
		if got := levelOf(line); got != test.want {
			t.Errorf("%s: level %d, want %d: %s", test.what, got, test.want, line)
		}
	}
}

// TestKafkaErrorsWithoutALevel checks that a line without a level reports an error if it names one of Kafka's.
func TestKafkaErrorsWithoutALevel(t *testing.T) {
	for _, test := range []struct {
		what, line string
		want       bool
	}{
		{"sarama", "[sarama] 2026/11/22 18:28:47.1 producer/broker/1 state change to [retrying] on dlq/0 because kafka " +
			"server: Messages are rejected since there are fewer in-sync replicas than required", true},
		{"sarama, fine",
			"[sarama] 2026/11/22 18:28:47.1 client/metadata fetching metadata for all topics from broker 127.0.0.1:9092", false},
		{"confluent-kafka",
			"delivery: KafkaError{code=NOT_ENOUGH_REPLICAS,val=19,str=\"Broker: Not enough in-sync replicas\"}", true},
		{"confluent-kafka, timed out", `KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}`, true},
		{"librdkafka in words", "% Delivery: Broker: Not enough in-sync replicas", true},
		{"aiokafka", "refused: [Error 19] NotEnoughReplicasError", true},
		{"Java", "caught NotEnoughReplicasException while sending", true},
		{"Java, expired", "Expiring 1 record(s) for dlq-0:120000 ms has passed since batch creation", true},
		{"kafka-go", "[7] Request Timed Out: the request exceeded the user-specified time limit", false},
		{"code", "dead letter refused, REQUEST_TIMED_OUT", true},
		{"a number of errors", "0 errors", false},
		{"a value", "error=null", false},
		{"a handler", "errorHandler registered", false},
		{"a class of its own", "registered OrderRejectedException", false},
		{"one word", "NetworkException handler ready", false},
		{"null", "last error: null", false},
		{"none", "error: None", false},
		{"zero", "sent: 12, failed: 0", false},
		{"one", "sent: 12, failed: 1", true},
	} {
		if got := readLine([]byte(test.line)); got.reports != test.want || got.stated {
			t.Errorf("%s: %+v, want %v: %s", test.what, got, test.want, test.line)
		}
	}
}

func TestLevelOfALineThatWasCut(t *testing.T) {
	long := make([]byte, longestLine)
	copy(long, `{"level":"error","payload":"`)
	for i := len(`{"level":"error","payload":"`); i < len(long); i++ {
		long[i] = 'x'
	}
	if got := levelOf(long); got != levelError {
		t.Errorf("level %d", got)
	}
}
