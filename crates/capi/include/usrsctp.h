/* For programs that include <usrsctp.h>: see braidsctp.h. */
#ifndef BRAIDSCTP_USRSCTP_H
#define BRAIDSCTP_USRSCTP_H

#include "braidsctp.h"

#endif
