/** A customer service on Express that stores tokens, and detokenizes only when it must. */
import { randomUUID } from 'node:crypto';
import express, { type ErrorRequestHandler } from 'express';
import { InvalidValueError, LimitError, Standin, StandinError } from 'standin-client';

const { STANDIN_URL: url = 'http://127.0.0.1:8080', STANDIN_API_KEY: apiKey = '' } = process.env;
const standin = new Standin({ url, apiKey, timeoutMs: 5_000 });

interface Customer {
  name: string;
  email: string;
}
/** Stands for your database, which never gets personal data. */
const customers = new Map<string, Customer>();

const app = express();
app.use(express.json());

// Values become tokens before the service stores them.
app.post('/customers', async (request, response) => {
  const { name = '', email = '' } = request.body ?? {};
  const customer = await standin.tokenize({ name, email });
  const id = randomUUID();
  customers.set(id, customer);
  response.status(201).json({ id, ...customer });
});

// Equal values have equal tokens, so a search needs no values.
app.get('/customers', async (request, response) => {
  const [email] = await standin.tokenizeValues([String(request.query.email)]);
  response.json([...customers].filter(([, customer]) => customer.email === email));
});

// Only this route needs a value, and it restores just that value.
app.get('/customers/:id/email', async (request, response) => {
  const customer = customers.get(request.params.id);
  if (customer === undefined) {
    response.status(404).json({ error: 'no such customer' });
    return;
  }
  response.json(await standin.detokenize({ email: customer.email }));
});

const onError: ErrorRequestHandler = (error, request, response, next) => {
  if (!(error instanceof StandinError)) return next(error);
  // On GET, a bad token is our own stored token, so not the caller's fault.
  if (error instanceof InvalidValueError && request.method === 'POST') {
    response.status(400).json({ error: error.message });
    return;
  }
  // The message of a StandinError contains no value and no token.
  console.error(`${error.name}: ${error.message} (request ${error.requestId})`);
  if (error instanceof LimitError)
    response.set('Retry-After', String(Math.ceil(error.retryAfterMs / 1_000)));
  response.status(503).json({ error: 'try again later' });
};
app.use(onError);

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log('listening on', server.address());
});
