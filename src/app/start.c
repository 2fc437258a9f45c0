#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A standard stream that was closed by the caller must not become the number of the next file or connection that is opened. The other
 * direction is opened in its place, so that reading or writing it fails as it should. */
static void keep_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
}

void app_start(void) {
    keep_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the next write, not a death; */
    signal(SIGXFSZ, SIG_IGN); /* so is a file that reaches the shell's limit (ulimit -f) */
}

ie_status app_flush(ie_error *err) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return IE_OK;
    return ie_fail(err, IE_E_IO, "standard output: %s", strerror(errno));
}
