import type { FastifyReply, FastifyRequest } from 'fastify';
import type { HealthFields } from '#openapi';
import { answer } from './answer.ts';
import type { ServerContext } from './context.ts';

/** GET /health: 200 when the node can work; 503 when it cannot, or is draining. */
export function healthHandler(context: ServerContext) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { isDatabaseWell, isAble } = await context.health.look();
    const isReady = isAble && context.state.phase === 'serving';
    const body: Record<HealthFields, string> = {
      status: isReady ? 'ok' : 'error',
      timestamp: `${new Date().toISOString().slice(0, 19)}Z`,
      postgres: isDatabaseWell ? 'ok' : 'error',
      version: context.interfaceVersion,
    };
    return answer(context, request, reply, isReady ? 200 : 503, JSON.stringify(body));
  };
}

/** GET /health/live: 200 while the process runs, even without a database. */
export function livenessHandler(context: ServerContext) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    answer(context, request, reply, 200, '{"status":"ok"}');
}
