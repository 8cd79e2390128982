import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { OperatorError } from '../errors.ts';
import { interruptible } from './command.ts';

/** Whether somebody is at the terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/**
 * Asks on the terminal. Only yes is yes; Ctrl-C and the end of the input are no.
 * @param nothing what was done, if nothing was
 * @throws OperatorError
 */
export async function requireYes(text: string, nothing: string): Promise<void> {
  if (await interruptible((stop) => isConfirmed(text, stop))) return;
  throw new OperatorError(nothing);
}

async function isConfirmed(text: string, stop: AbortSignal): Promise<boolean> {
  // Without terminal mode, so that Ctrl-C reaches the process.
  const questions = createInterface({
    input: process.stdin,
    output: process.stderr,
    terminal: false,
  });
  const closed = once(questions, 'close').then(() => '');
  try {
    const asked = questions.question(`${text} Go on? (yes/no) `, { signal: stop });
    const answer = await Promise.race([asked, closed]);
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    return false;
  } finally {
    questions.close();
  }
}
