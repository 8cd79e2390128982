import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chromiumBin, launch, Tab } from '../support/browser.ts';
import { freePort } from '../support/processes.ts';
import { call, type Place, type Service, startService, usualPlace } from '../support/service.ts';

const PATIENCE = { timeout: 20_000 };

/** A text that a chart has drawn, with its horizontal extent in pixels of the canvas. */
interface Label {
  readonly text: string;
  readonly begin: number;
  readonly end: number;
  readonly y: number;
  readonly width: number;
}

/** Notes the texts of every chart since it was last cleared, as `labels` of its canvas. */
const NOTE_LABELS = `{
  const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    this.canvas.labels = [];
    return clearRect.apply(this, box);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const half = this.measureText(text).width / 2;
    const { e, f } = this.getTransform();
    this.canvas.labels.push(
      { text, begin: x + e - half, end: x + e + half, y: y + f, width: this.canvas.width },
    );
    return fillText.call(this, text, x, y);
  };
}`;

describe.skipIf(chromiumBin === undefined)('the charts of the console', () => {
  let browser: Browser;
  let place: Place;
  let service: Service;
  let tab: Tab;

  beforeAll(async () => {
    place = await usualPlace();
    service = await startService(place, { OPS_PORT: String(await freePort()) });
    browser = await launch();
    tab = await Tab.open(browser, service.opsUrl!);
    await tab.page.addInitScript(NOTE_LABELS);
    await tab.page.reload();
  });

  afterAll(async () => {
    await tab?.close();
    await browser?.close();
    await service?.stop();
    place?.remove();
  });

  const timeLabels = async (): Promise<Label[][]> => {
    const charts = (await tab.page.evaluate(
      "[...document.querySelectorAll('canvas')].map((canvas) => canvas.labels ?? [])",
    )) as Label[][];
    return charts.map((labels) => labels.filter(({ text }) => /^\d\d:\d\d/.test(text)));
  };

  test.each([320, 390, 768, 1024, 1280, 1366, 1440, 1920, 2560])(
    'labels of the time neither touch nor leave the chart: %i px',
    async (width) => {
      await tab.page.setViewportSize({ width, height: 900 });
      for (const minutes of ['1 min', '5 min', '15 min']) {
        await tab.page.getByText(minutes, { exact: true }).click();
        await expect
          .poll(async () => (await timeLabels()).map((labels) => labels.length > 0), PATIENCE)
          .toEqual(Array.from({ length: 6 }, () => true));
        for (const labels of await timeLabels()) {
          const inOrder = labels.toSorted((a, b) => a.begin - b.begin);
          inOrder.forEach((label, i) => {
            const before = inOrder[i - 1]?.end ?? 0;
            expect(label.begin - before, `${minutes}: ${label.text}`).toBeGreaterThanOrEqual(
              i === 0 ? 0 : 8,
            );
            expect(label.end, `${minutes}: ${label.text}`).toBeLessThanOrEqual(label.width);
          });
        }
      }
    },
  );

  test('a lone request is drawn', async () => {
    await tab.page.getByText('1 min', { exact: true }).click();
    await call(service, 'tokenize', { name: 'Ann' });
    const chart = tab.page.getByLabel('Latency of tokenize', { exact: true }).locator('canvas');
    const drawn = () =>
      chart.evaluate((canvas: { getContext(kind: '2d'): DrawnOn } & DrawnOn) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let blue = 0;
        for (let i = 0; i < data.length; i += 4) {
          const [red, green, ofBlue, opacity] = data.slice(i, i + 4);
          if (opacity === 255 && ofBlue! > 200 && red! < 80 && green! < 120) blue++;
        }
        return blue;
      });
    await expect.poll(drawn, PATIENCE).toBeGreaterThan(10);
  });
});

/** What the test uses of a canvas, because tests have no types of the DOM. */
interface DrawnOn {
  readonly width: number;
  readonly height: number;
  getImageData(x: number, y: number, width: number, height: number): { data: Uint8ClampedArray };
}
