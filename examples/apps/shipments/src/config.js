// Settings, all from the environment.

function required(env, name) {
  const value = env[name]
  if (!value) throw new Error(`${name} is not set`)
  return value
}

export function readConfig(env = process.env) {
  return {
    brokers: required(env, 'KAFKA_BROKERS').split(','),
    groupId: env.KAFKA_GROUP ?? 'shipments',
    topic: env.ORDERS_TOPIC ?? 'orders',
    deadLetterTopic: env.DEAD_LETTER_TOPIC ?? 'orders.shipments.dead-letters',
    sessionTimeoutMs: Number(env.SESSION_TIMEOUT_MS ?? 10000),
    carrierUrl: required(env, 'CARRIER_URL').replace(/\/$/, ''),
    carrierTimeoutMs: Number(env.CARRIER_TIMEOUT_MS ?? 2000),
    maxAttempts: Number(env.MAX_ATTEMPTS ?? 4),
    backoffMs: Number(env.BACKOFF_MS ?? 100),
    maxBackoffMs: Number(env.MAX_BACKOFF_MS ?? 1000),
  }
}
