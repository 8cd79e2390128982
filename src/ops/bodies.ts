import type { IncomingMessage } from 'node:http';
import { Refusal } from './answers.ts';

/** The body of a request with a JSON content type. @throws Refusal */
export async function readJson(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const types = request.headersDistinct['content-type'] ?? [];
  if (types.length !== 1 || !/^application\/json *(;|$)/i.test(types[0]!)) {
    throw new Refusal(415, 'unsupported_media_type', 'Send Content-Type: application/json.');
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Read to the end even so: leaving the loop early would destroy the connection.
    if (bytes <= maxBytes) chunks.push(chunk);
  }
  if (bytes > maxBytes) {
    throw new Refusal(413, 'payload_too_large', `The body is larger than ${maxBytes} bytes.`);
  }
  return Buffer.concat(chunks);
}
