import cluster from 'node:cluster';
import fastify from 'fastify';
import { announce } from './child.ts';

/**
 * What the HTTP stack of Node can do on this machine: parses the same body and sends it back, nothing else.
 * The yardstick for everything that Standin adds. With an argument above 1: so many processes of it, on one port, to
 * which the first one hands connections in turn, as Standin does it.
 */
const processes = Number(process.argv[2] ?? 1);
if (cluster.isPrimary && processes > 1) forkAll();
else await serve();

async function serve(): Promise<void> {
  const app = fastify({ logger: false, bodyLimit: 1_048_576 });
  const echo = async (request: { body: unknown }) => request.body;
  app.post('/api/v1/tokenize', echo);
  app.post('/api/v1/detokenize', echo);
  app.get('/health/live', async () => ({ status: 'ok' }));
  announce(await app.listen({ host: '127.0.0.1', port: 0 }));
}

/** They share the port that the first one is given. */
function forkAll(): void {
  cluster.schedulingPolicy = cluster.SCHED_RR;
  let ready = 0;
  cluster.on('message', (_worker, { url }: { url: string }) => {
    if (++ready === processes) announce(url);
  });
  for (let i = 0; i < processes; i++) cluster.fork();
}
