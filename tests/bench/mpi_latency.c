// Two ranks send eight octets back and forth; rank 0 says what one way takes.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

enum { kWarmUp = 2000, kRounds = 20000 };

static void round_trips(int rank, int rounds) {
  int64_t word = 0;
  for (int i = 0; i < rounds; ++i) {
    if (rank == 0) {
      MPI_Send(&word, 1, MPI_INT64_T, 1, 0, MPI_COMM_WORLD);
    }
    MPI_Recv(&word, 1, MPI_INT64_T, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) {
      MPI_Send(&word, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD);
    }
  }
}

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  round_trips(rank, kWarmUp);
  const double start = MPI_Wtime();
  round_trips(rank, kRounds);
  if (rank == 0) {
    printf("one way %.3f us\n", (MPI_Wtime() - start) / kRounds / 2 * 1e6);
  }
  MPI_Finalize();
  return 0;
}
