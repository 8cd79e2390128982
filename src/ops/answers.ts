import type { ServerResponse } from 'node:http';

export const TEXT = 'text/plain; charset=utf-8';
export const JSON_TYPE = 'application/json; charset=utf-8';

export function answer(
  response: ServerResponse,
  status: number,
  contentType: string,
  body: string | Buffer,
): void {
  response.writeHead(status, { 'Content-Type': contentType }).end(body);
}

export function answerJson(response: ServerResponse, status: number, body: unknown): void {
  answer(response, status, JSON_TYPE, JSON.stringify(body));
}

/** A refusal in one sentence, which says what to do. */
export class Refusal extends Error {
  readonly status: number;
  /** What happened, for programs. */
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}
