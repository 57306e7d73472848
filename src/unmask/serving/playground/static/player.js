// Which step is shown: it follows a run, is moved by hand, or plays again. Time comes from the screen's frames.

import { useEffect, useRef, useState } from "./vendor/htm-preact-standalone.js";

export const PACES = { gentle: "gentle", 2: "2 steps/s", 5: "5 steps/s", 20: "20 steps/s", live: "live" };

const FASTEST = 60; // steps per second, of a run that is played again

const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

// Steps per second. A gentle pace can be followed by eye, and shows a long run in a few seconds.
const rate = (pace, last) => ({ gentle: Math.max(8, last / 8), live: FASTEST })[pace] ?? Number(pace);

// `last`: the newest step there is; `running`: whether there may be more.
export function usePlayer(last, running, pace) {
  // `following`: it plays for the first time. Live, or where motion is not wanted, that shows the newest step at once.
  const [player, setPlayer] = useState({ step: 0, playing: false, following: false });
  const exact = useRef(0);

  const show = (step, playing = false, following = false) => {
    exact.current = step;
    setPlayer({ step, playing, following });
  };

  useEffect(() => {
    if (!player.playing) return undefined;
    const atOnce = player.following && (pace === "live" || calm());
    let then = null;
    let frame = requestAnimationFrame(function tick(now) {
      const seconds = then === null ? 0 : (now - then) / 1000;
      then = now;
      exact.current = atOnce ? last : Math.min(exact.current + seconds * rate(pace, last), last);
      const step = Math.floor(exact.current);
      const playing = running || step < last;
      const moved = (was) => was.playing && (was.step !== step || was.playing !== playing); // else paused just now
      setPlayer((was) => (moved(was) ? { ...was, step, playing } : was));
      if (playing) frame = requestAnimationFrame(tick);
    });
    return () => cancelAnimationFrame(frame);
  }, [player.playing, player.following, last, running, pace]);

  return {
    ...player,
    begin: () => show(0, true, true),
    show: (step) => show(Math.max(0, Math.min(step, last))),
    toggle: () => (player.playing ? show(player.step) : show(player.step >= last ? 0 : player.step, true)),
  };
}
