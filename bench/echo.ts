import fastify from 'fastify';
import { announce } from './child.ts';

/**
 * The speed of Node's HTTP stack on this machine: parses the same body and sends it back. This is the
 * yardstick for everything that Standin adds.
 */
const app = fastify({ logger: false, bodyLimit: 1_048_576 });
const echo = async (request: { body: unknown }) => request.body;
app.post('/api/v1/tokenize', echo);
app.post('/api/v1/detokenize', echo);
app.get('/health/live', async () => ({ status: 'ok' }));
announce(await app.listen({ host: '127.0.0.1', port: 0 }));
