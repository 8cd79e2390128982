import type { Exchange, ResponseContent } from './exchange.ts';
import type { HealthFields } from './schema.ts';

/** GET /health: 200 when the node can work; 503 when it cannot, or is draining. */
export async function serveHealth({ context }: Exchange): Promise<ResponseContent> {
  const { isDatabaseWell, isAble } = await context.health.read();
  const isReady = isAble && context.state.phase === 'serving';
  const body: Record<HealthFields, string> = {
    status: isReady ? 'ok' : 'error',
    timestamp: `${new Date().toISOString().slice(0, 19)}Z`,
    postgres: isDatabaseWell ? 'ok' : 'error',
    version: context.interfaceVersion,
  };
  return { status: isReady ? 200 : 503, body: JSON.stringify(body) };
}

/** GET /health/live: 200 while the process runs, even without a database. */
export function serveLiveness(): ResponseContent {
  return { status: 200, body: '{"status":"ok"}' };
}
