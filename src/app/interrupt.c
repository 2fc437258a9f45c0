/* Ctrl-C: asks the work in hand to stop; what there is so far is still printed. */
#include <signal.h>
#include <string.h>

#include "app.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int sig) {
    (void)sig;
    interrupted = 1;
    app_term_wake();
}

void app_interrupts(bool ours) {
    struct sigaction act;
    memset(&act, 0, sizeof act);
    sigemptyset(&act.sa_mask);
    act.sa_handler = ours ? on_signal : SIG_DFL;
    interrupted = 0;
    sigaction(SIGINT, &act, NULL);
}

bool app_interrupted(void) { return interrupted != 0; }
void app_interrupts_clear(void) { interrupted = 0; }
