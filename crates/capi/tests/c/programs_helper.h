/* What Debian leaves out beside usrsctp's examples: the declarations of programs_helper.c. */
#ifndef PROGRAMS_HELPER_H
#define PROGRAMS_HELPER_H

#include <stdio.h>

void debug_printf(const char *format, ...);
void debug_printf_clean(const char *format, ...);
void debug_printf_stack(const char *format, ...);
void debug_set_target(FILE *fp);
void handle_notification(union sctp_notification *notif, size_t n);

#endif
