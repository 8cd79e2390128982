import fastify from 'fastify';

/**
 * The speed of Node's HTTP stack on this machine: parses the same body and sends it back. This is the
 * yardstick for everything that Standin adds.
 */
const app = fastify({ logger: false, bodyLimit: 1_048_576 });
const echo = async (request: { body: unknown }) => request.body;
app.post('/api/v1/tokenize', echo);
app.post('/api/v1/detokenize', echo);
app.get('/health/live', async () => ({ status: 'ok' }));
await app.listen({ host: '127.0.0.1', port: Number(process.argv[2]) });
