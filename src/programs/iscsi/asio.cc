// Asio's own functions, compiled once for this program (ASIO_SEPARATE_COMPILATION).

#include <asio/impl/src.hpp>
