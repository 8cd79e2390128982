import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';

/** Whether somebody is at the terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks on the terminal. Only yes is yes; Ctrl-C and the end of the input are no. */
export async function isConfirmed(text: string, stop: AbortSignal): Promise<boolean> {
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
