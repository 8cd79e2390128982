/** A customer service on Fastify that stores tokens, and detokenizes only when it must. */
import { randomUUID } from 'node:crypto';
import Fastify from 'fastify';
import { InvalidValueError, LimitError, Standin, StandinError } from 'standin-client';

const { STANDIN_URL: url = 'http://127.0.0.1:8080', STANDIN_API_KEY: apiKey = '' } = process.env;
const standin = new Standin({ url, apiKey, timeoutMs: 5_000 });

interface Customer {
  name: string;
  email: string;
}
/** Stands for your database, which never gets personal data. */
const customers = new Map<string, Customer>();

const app = Fastify();

const body = {
  type: 'object',
  required: ['name', 'email'],
  properties: { name: { type: 'string' }, email: { type: 'string' } },
};

// Values become tokens before the service stores them.
app.post<{ Body: Customer }>('/customers', { schema: { body } }, async (request, reply) => {
  const { name, email } = request.body;
  const customer = await standin.tokenize({ name, email });
  const id = randomUUID();
  customers.set(id, customer);
  reply.code(201);
  return { id, ...customer };
});

// Equal values have equal tokens, so a search needs no values.
app.get<{ Querystring: { email: string } }>('/customers', async (request) => {
  const [email] = await standin.tokenizeValues([request.query.email]);
  return [...customers].filter(([, customer]) => customer.email === email);
});

// Only this route needs a value, and it restores just that value.
app.get<{ Params: { id: string } }>('/customers/:id/email', async (request, reply) => {
  const customer = customers.get(request.params.id);
  if (customer === undefined) return reply.code(404).send({ error: 'no such customer' });
  return standin.detokenize({ email: customer.email });
});

app.setErrorHandler((error, request, reply) => {
  if (!(error instanceof StandinError)) return reply.send(error);
  // On GET, a bad token is our own stored token, so not the caller's fault.
  if (error instanceof InvalidValueError && request.method === 'POST')
    return reply.code(400).send({ error: error.message });
  // The message of a StandinError contains no value and no token.
  console.error(`${error.name}: ${error.message} (request ${error.requestId})`);
  if (error instanceof LimitError)
    reply.header('Retry-After', Math.ceil(error.retryAfterMs / 1_000));
  return reply.code(503).send({ error: 'try again later' });
});

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' });
console.log('listening on', app.server.address());
