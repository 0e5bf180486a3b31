"""What others wrote to judge servers of skills, asked about a real `skillquay serve`."""
