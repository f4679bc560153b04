/*
 * A controller in plain C with an exported policy, and the CartPole that it balances.
 *
 * fastloop launch configs/ppo_cartpole.yaml
 * fastloop export runs/ppo_cartpole -o cartpole_policy.h
 * cc -O2 -I. -o cartpole examples/deploy/cartpole.c -lm
 * ./cartpole
 */

#include <math.h>
#include <stdio.h>

#include "cartpole_policy.h"

#define STEPS 500

/* One step of 20 ms of Gymnasium's CartPole-v1: cart at x, pole at an angle from upright. */
static void push(double s[4], int right)
{
    const double gravity = 9.8, total = 1.1, pole = 0.1, half_length = 0.5, tau = 0.02;
    double force = right ? 10.0 : -10.0, sine = sin(s[2]), cosine = cos(s[2]);
    double part = (force + pole * half_length * s[3] * s[3] * sine) / total;
    double turn = (gravity * sine - cosine * part)
        / (half_length * (4.0 / 3.0 - pole * cosine * cosine / total));
    double speed_up = part - pole * half_length * turn * cosine / total;
    s[0] += tau * s[1];
    s[1] += tau * speed_up;
    s[2] += tau * s[3];
    s[3] += tau * turn;
}

static int episode(double start)
{
    double s[4] = {start, -start, -start, start};
    float obs[CARTPOLE_POLICY_OBS];
    int steps, action[CARTPOLE_POLICY_ACTION];
    for (steps = 0; steps < STEPS; ++steps) {
        for (int i = 0; i < CARTPOLE_POLICY_OBS; ++i)
            obs[i] = (float)s[i];
        if (cartpole_policy_act(obs, action))
            break; /* not a number: a real controller would go to a safe state here */
        push(s, action[0] == 1);
        if (fabs(s[0]) > 2.4 || fabs(s[2]) > 0.20943951)
            return steps + 1;
    }
    return steps;
}

int main(void)
{
    int total = 0, count = 0;
    for (double start = -0.05; start < 0.055; start += 0.025, ++count) {
        int steps = episode(start);
        printf("start %+.3f: return %d\n", start, steps);
        total += steps;
    }
    printf("mean return %g\n", (double)total / count);
    return 0;
}
