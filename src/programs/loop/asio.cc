// Asio's own functions, compiled once for all programs that have a loop
// (ASIO_SEPARATE_COMPILATION).

#include <asio/impl/src.hpp>
