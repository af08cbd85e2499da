// Asio's own functions, compiled once for the daemon (ASIO_SEPARATE_COMPILATION).

#include <asio/impl/src.hpp>
