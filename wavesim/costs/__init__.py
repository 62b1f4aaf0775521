"""What things cost: cost models, calibration, DRAM, L2, clock, sharing; one data file per device."""
