/* What both programs do first. */
#ifndef IE_START_H
#define IE_START_H

#include "../base.h"

/* Keeps the numbers of the standard streams, and makes errors of writes out of the signals that would end the process. */
void app_start(void);
/* Standard output is through; IE_E_IO where not all could be written. */
ie_status app_flush(ie_error *err);

#endif
